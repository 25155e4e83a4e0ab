/** What the colours of a timeline mean. */

import type { Lane } from "./timeline_rows";

export type Key = "shown" | "others" | "pause" | "part";

/**
 * The colours in use, and what they mean; devices have the colours of their lanes.
 * @param lanes the visible lanes
 * @param shown the chosen function, and its name
 */
export function keyOf(lanes: readonly Lane[], shown: number, name: string): [Key, string][] {
  const spans = lanes.flatMap((lane) => lane.spans);
  const steps = [...spans.filter((s) => s.kind === "step"), ...lanes.flatMap((lane) => lane.busy)];
  const key: [Key, string][] = [];
  if (shown && steps.some((s) => s.executable === shown)) key.push(["shown", `steps of ${name}`]);
  if (steps.some((s) => s.executable !== shown)) key.push(["others", shown ? "other steps" : "steps"]);
  if (spans.some((s) => s.kind === "wait")) key.push(["pause", "waits for queues"]);
  if (lanes.some((lane) => lane.busy.length)) key.push(["part", "share of each second that is in steps"]);
  return key;
}
