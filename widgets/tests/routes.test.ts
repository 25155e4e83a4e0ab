import { expect, test } from "vitest";
import { pointOf } from "../src/graph/edge_labels";
import { route } from "../src/layout/routes";
import { frameOf, type Placed } from "../src/layout/types";

const [from, to] = [{ x: 0, y: 0, width: 50, height: 30 }, { x: 400, y: 10, width: 50, height: 30 }];

/** How many of a hundred places of a path lie within a box. */
function hidden(path: string, box: Placed): number {
  const { x, y, width, height } = frameOf(box);
  const places = Array.from({ length: 100 }, (_, i) => pointOf(path, i / 100));
  return places.filter((p) => p.x > x && p.x < x + width && p.y > y && p.y < y + height).length;
}

test("a path goes from the sides that face each other where nothing is between", () => {
  const path = route(from, to, [from, to].map(frameOf));
  expect(path).toMatch(/^M25\.0,0\.0C/);
  expect(path).toMatch(/ 375\.0,10\.0$/);
});

test("a path does not run behind a box beside its first or its last one", () => {
  for (const box of [{ x: 75, y: 0, width: 70, height: 36 }, { x: 325, y: 10, width: 70, height: 36 }]) {
    const path = route(from, to, [from, to, box].map(frameOf));
    expect(hidden(path, box)).toBe(0);
  }
});
