import { expect, test } from "vitest";
import { EdgeLabels, pointOf } from "../src/graph/edge_labels";

test("points of a path of curves", () => {
  const path = "M0,0C0,0 30,0 30,0 30,0 30,-60 30,-60";
  expect(pointOf(path, 0)).toEqual({ x: 0, y: 0 });
  expect(pointOf(path, 0.25)).toEqual({ x: 15, y: 0 });
  expect(pointOf(path, 0.75)).toEqual({ x: 30, y: -30 });
  expect(pointOf(path, 1)).toEqual({ x: 30, y: -60 });
});

test("a text is in the middle of its line where there is room", () => {
  const labels = new EdgeLabels([], []);
  const at = labels.place("M0,0C0,0 0,100 0,100", "197 kB", 1);
  expect(at.x + at.width / 2).toBeCloseTo(0);
  expect(at.y + at.height / 2).toBeCloseTo(50);
});

test("texts are hidden neither by boxes nor by each other", () => {
  // two boxes with less room between them than the text is wide
  const boxes = [{ x: 0, y: 0, width: 60, height: 38 }, { x: 90, y: 0, width: 60, height: 38 }];
  const labels = new EdgeLabels(boxes, []);
  const path = "M30,0C40,0 50,0 60,0";
  const places = [labels.place(path, "147 kB", 1), labels.place(path, "295 kB", 1)];
  for (const { y, height } of places) expect(y >= 19 || y + height <= -19).toBe(true);
  expect(Math.abs(places[0]!.y - places[1]!.y)).toBeGreaterThanOrEqual(places[0]!.height);
});

test("texts do not hide the name of a group", () => {
  const name = { x: -30, y: 40, width: 60, height: 20 };
  const { y, height } = new EdgeLabels([], [name]).place("M0,0C0,0 0,100 0,100", "197 kB", 1);
  expect(y >= 60 || y + height <= 40).toBe(true);
});
