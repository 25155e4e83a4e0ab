import { expect, test } from "vitest";
import { ordered } from "../src/views/order";

const ROWS = [["b10", 2], ["", 3], ["b9", 1], ["a", 2]] as const;
const [name, size] = [([text]: (typeof ROWS)[number]) => text, (row: (typeof ROWS)[number]) => row[1]];

test("texts are sorted with their numbers, and rows without one come last, either way", () => {
  expect(ordered(ROWS, name, false).map(name)).toEqual(["a", "b9", "b10", ""]);
  expect(ordered(ROWS, name, true).map(name)).toEqual(["b10", "b9", "a", ""]);
});

test("what is equal stays in its order", () => {
  expect(ordered(ROWS, size, true).map(name)).toEqual(["", "b10", "a", "b9"]);
});
