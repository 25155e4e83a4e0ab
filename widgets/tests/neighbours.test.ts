import { expect, test } from "vitest";
import { crossingsOf, operandsOf, usersOf } from "../src/graph/neighbours";
import { makeStructure } from "../src/graph/structure";

const STRUCTURE = makeStructure([
  { op: "relu", name: "relu", kind: "op", scope: "first", type: "f32[4]@cpu:0" },
  { op: "constant", name: "constant", kind: "constant", value: "2.0" },
  { op: "multiply", name: "multiply", kind: "op", scope: "second" },
  { op: "less_equal", name: "less_equal", kind: "op" },
], [[-1, 0], [0, 2], [1, 2], [0, 3], [0, -1], [0, 2]], { inputs: ["x: f32[4]"], outputs: ["f32[4]"] }); // prettier-ignore

test("operands are inputs, constants and nodes", () => {
  expect(operandsOf(0, STRUCTURE)).toBe("x: f32[4]");
  expect(operandsOf(2, STRUCTURE)).toBe("relu in first: f32[4]\nthe constant 2.0\nrelu in first: f32[4]");
  expect(operandsOf(1, STRUCTURE)).toBe("");
});

test("users are named once, with their scopes, and the result is one", () => {
  expect(usersOf(0, STRUCTURE)).toBe("multiply in second, less_equal, the result");
  expect(usersOf(3, STRUCTURE)).toBe("");
});

test("a group takes and gives each value once, and constants are none of them", () => {
  const inside = (node: number): boolean => node === 0 || node === 1;
  expect(crossingsOf(inside, STRUCTURE)).toEqual({ takes: "x: f32[4]", gives: "relu in first: f32[4]" });
  expect(crossingsOf((node) => !inside(node), STRUCTURE)).toEqual({ takes: "relu in first: f32[4]", gives: "" });
});

test("a variable that is read has its own name, and the second output its own type", () => {
  const s = makeStructure([
    { op: "read", name: "read_7", kind: "op", resources: "layer.weight: f32[3]", type: "f32[3]@cpu:0" },
    { op: "standardize", name: "standardize", kind: "op", type: "f32[8,3]@cpu:0, f32[1,3]@cpu:0" },
    { op: "multiply", name: "multiply", kind: "op" },
  ], [[0, 2], [1, 2, 1]]); // prettier-ignore
  expect(operandsOf(2, s)).toBe("the variable layer.weight: f32[3]\nstandardize: f32[1,3]");
});

test("of many values the first are named, and the others counted", () => {
  const nodes = Array.from({ length: 16 }, (_, i) => ({ op: "exp", name: `exp_${i}`, kind: "op" }));
  const s = makeStructure(nodes, Array.from({ length: 15 }, (_, i) => [i, 15]));
  const { takes } = crossingsOf((node) => node === 15, s);
  expect(takes.split("\n")).toHaveLength(13);
  expect(takes.split("\n").at(-1)).toBe("and 3 more");
});
