import { expect, test } from "vitest";
import COLOURS from "../../tests/golden/device_colors.json";
import { deviceColour } from "../src/colours";

test("devices have the colours of the pictures that Python draws", () => {
  for (const [device, colour] of Object.entries(COLOURS)) expect(deviceColour(device), device).toBe(colour);
});
