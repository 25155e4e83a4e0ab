import { expect, test } from "vitest";
import type { Row } from "../src/feed/tables";
import type { Activity, NodePlace } from "../src/graph/activity";
import { footerOf } from "../src/graph/footer";
import { makeStructure } from "../src/graph/structure";

const STRUCTURE = makeStructure([{ op: "dequeue", name: "dequeue" }]);

function activity(steps: Row | undefined, places: readonly NodePlace[] = []): Activity {
  return { steps: () => steps, places: () => places } as unknown as Activity;
}

test("a run that stands still has no rate, whatever its threads do", () => {
  const steps: Row = { count: 100, last: 50, p50: 0.04, p99: 0.06, rate: 25 };
  const waits: NodePlace = { node: 0, doing: "waits", since: 50, iteration: -1, queue: "batches", progress: 0 };
  expect(footerOf(activity(steps), STRUCTURE, 51)).toBe("100 steps · 40 ms each · 25 a second");
  expect(footerOf(activity(steps, [waits]), STRUCTURE, 62)).toBe(
    "100 steps · 40 ms each · stands still for 12 s · dequeue waits for batches (12 s)");
});

test("a long step does not stand still, and the first has no rate", () => {
  const long: Row = { count: 9, last: 50, p50: 8, p99: 9, rate: 0.12 };
  expect(footerOf(activity(long), STRUCTURE, 70)).toBe("9 steps · 8.0 s each · 0.12 a second");
  expect(footerOf(activity({ ...long, count: 1 }), STRUCTURE, 70)).toBe("first steps");
  expect(footerOf(activity(undefined), STRUCTURE, 70)).toBe("no step yet");
});
