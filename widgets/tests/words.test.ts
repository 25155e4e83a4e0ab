import { expect, test } from "vitest";
import { deviceColour } from "../src/colours";
import { bytes, clip, lineOfCode, rate, seconds, share } from "../src/format";

test("times, sizes and shares read as those of the kernel", () => {
  expect([0.00472, 0.0000123, 2.5, 0.25].map(seconds)).toEqual(["4.7 ms", "12 us", "2.5 s", "250 ms"]);
  expect([12, 4096, 5e6].map(bytes)).toEqual(["12 B", "4.1 kB", "5 MB"]);
  expect([0.62, 0.031, 0.0004, 0].map(share)).toEqual(["62 %", "3.1 %", "under 0.1 %", "0.0 %"]);
  expect([1234, 12.3, 2].map(rate)).toEqual(["1,234", "12", "2"]);
  expect(clip("a  long   text", 7)).toBe("a long…");
  expect(lineOfCode("/some/folder/train.py:5 in step: a / b: c/d")).toBe("train.py:5 in step: a / b: c/d");
  expect(lineOfCode("cell 3:2: x / y")).toBe("cell 3:2: x / y");
});

test("a device has one colour, and neighbours differ", () => {
  expect(deviceColour("cpu:2")).toBe(deviceColour("cpu:2"));
  const colours = [0, 1, 2, 3].map((i) => deviceColour(`cpu:${i}`));
  expect(new Set(colours).size).toBe(4);
});
