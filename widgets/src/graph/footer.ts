/** The line below a graph about its activity: number and rate of steps, and places of threads. */

import { number } from "../feed/tables";
import { count, rate, seconds } from "../format";
import type { Activity, NodePlace } from "./activity";
import type { Structure } from "./structure";

/** seconds, or times the longest step, since the last end of a step after which no rate is shown */
const STILL = 3;
const LONGEST = 3;
/** number of steps without a rate */
const FEW = 2;
/** number of places that are shown */
const PLACES = 3;

/** @param now present time by the kernel's clock */
export function footerOf(activity: Activity, s: Structure, now: number): string {
  const places = activity.places().slice(0, PLACES).map((place) => placeOf(place, s, now));
  const steps = activity.steps();
  if (!steps) return ["no step yet", ...places].join(" · ");
  const [done, passed] = [number(steps, "count"), now - number(steps, "last")];
  if (done < FEW) return ["first steps", ...places].join(" · ");
  const isStill = passed > Math.max(STILL, LONGEST * number(steps, "p99"));
  const how = isStill ? `stands still for ${seconds(passed)}` : `${rate(number(steps, "rate"))} a second`;
  return [`${count(done)} steps`, `${seconds(number(steps, "p50"))} each`, how, ...places].join(" · ");
}

function placeOf(place: NodePlace, s: Structure, now: number): string {
  const name = place.node >= 0 ? s.text("name", place.node) : "eager code";
  const doing = place.doing === "waits" && place.queue ? `waits for ${place.queue}` : place.doing;
  const iteration = place.iteration >= 0 ? `, iteration ${count(place.iteration)}` : "";
  const done = place.progress > 0 ? `, ${Math.round(100 * place.progress)} %` : "";
  return `${name} ${doing} (${seconds(Math.max(now - place.since, 0))}${iteration}${done})`;
}
