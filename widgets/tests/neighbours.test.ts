import { expect, test } from "vitest";
import { operandsOf, usersOf } from "../src/graph/neighbours";
import { makeStructure } from "../src/graph/structure";

const STRUCTURE = makeStructure([
  { op: "relu", name: "relu", kind: "op", scope: "first" },
  { op: "constant", name: "constant", kind: "constant", value: "2.0" },
  { op: "multiply", name: "multiply", kind: "op", scope: "second" },
  { op: "less_equal", name: "less_equal", kind: "op" },
], [[-1, 0], [0, 2], [1, 2], [0, 3], [0, -1], [0, 2]], { inputs: ["x: f32[4]"], outputs: ["f32[4]"] }); // prettier-ignore

test("operands are inputs, constants and nodes", () => {
  expect(operandsOf(0, STRUCTURE)).toBe("x: f32[4]");
  expect(operandsOf(2, STRUCTURE)).toBe("relu, the constant 2.0, relu");
  expect(operandsOf(1, STRUCTURE)).toBe("");
});

test("users are named once, with their scopes, and the result is one", () => {
  expect(usersOf(0, STRUCTURE)).toBe("multiply in second, less_equal, the result");
  expect(usersOf(3, STRUCTURE)).toBe("");
});
