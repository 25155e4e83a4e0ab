/** The health of the tasks of clusters, now and in the past. */

import type { Feed } from "./feed";
import { number } from "./tables";

export type Health = "ready" | "suspect" | "lost" | "gone";

/** A time in which a task was missing, or did not answer. */
export interface Absence {
  readonly task: string;
  readonly health: Exclude<Health, "ready">;
  readonly start: number;
  /** infinite while the absence lasts */
  readonly stop: number;
}

/** Short texts in pictures for tasks that are missing. */
export const SAID: Readonly<Record<Exclude<Health, "ready">, string>> = {
  lost: "lost", suspect: "no answer", gone: "ended",
}; // prettier-ignore

/** The task of a device; empty for a device of the notebook's own process. */
export function taskOf(device: string): string {
  return device.includes("/") ? device.slice(0, device.indexOf("/")) : "";
}

/** The absences of each task, in order of time. */
export function absences(feed: Feed): Map<string, Absence[]> {
  const all = new Map<string, Absence[]>();
  for (const row of feed.log("tasks")) {
    const [task, health, time] = [feed.name(row, "task"), feed.name(row, "health") as Health, number(row, "time")];
    const known = all.get(task) ?? [];
    const last = known.at(-1);
    if (last?.stop === Infinity) known[known.length - 1] = { ...last, stop: time };
    if (health !== "ready") known.push({ task, health, start: time, stop: Infinity });
    all.set(task, known);
  }
  return all;
}

/** The tasks that are missing now, or do not answer. */
export function awayNow(feed: Feed): Map<string, Absence["health"]> {
  const away = new Map<string, Absence["health"]>();
  for (const [task, all] of absences(feed)) {
    const last = all.at(-1);
    if (last?.stop === Infinity) away.set(task, last.health);
  }
  return away;
}
