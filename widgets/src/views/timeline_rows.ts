/** The data of a timeline: lanes of devices and threads, with their spans. */

import { NEUTRAL, deviceColour } from "../colours";
import type { Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { absences, SAID, taskOf, type Absence } from "../feed/tasks";
import { bytes, count, seconds, share } from "../format";

export type SpanKind = "step" | "region" | "node" | "wait";

/** A time span in a lane. */
export interface Span {
  readonly kind: SpanKind;
  readonly executable: number;
  /** the node; -1 for a whole step or region */
  readonly node: number;
  readonly start: number;
  readonly stop: number;
  readonly name: string;
  readonly colour: string;
}

/** A transfer, drawn as an arrow between the lanes of two devices. */
export interface Move {
  readonly executable: number;
  readonly node: number;
  readonly start: number;
  readonly stop: number;
  readonly origin: string;
  readonly device: string;
  readonly bytes: number;
}

/** A second, or more, in which steps of a function ran, each of them reported or not. */
export interface Busy {
  readonly executable: number;
  readonly start: number;
  readonly stop: number;
  /** number of steps that ended in it, and the part of it that they took */
  readonly count: number;
  readonly share: number;
}

export interface Lane {
  readonly key: string;
  readonly label: string;
  readonly spans: Span[];
  readonly busy: Busy[];
  /** times in which the task of the device was missing */
  readonly away: readonly Absence[];
}

/** A trace of a function: its first call, or a retrace. */
export interface Trace {
  readonly start: number;
  readonly stop: number;
  readonly name: string;
  readonly reason: string;
  readonly isFirst: boolean;
}

/** number of steps in the statistics */
const NEWEST = 256;
/** the kernel's reason for a trace that is no retrace */
const FIRST = "the first call";
/** longest time in seconds between two glances at a thread in a node that are joined to one span */
const GLANCE = 0.25;

export class TimelineRows {
  /** labels by key, in order of appearance: lanes neither go nor move while one reads */
  private readonly order = new Map<string, string>();
  private readonly numbers = new Map<number, number>();
  /** the latest lane of an executable's steps */
  private readonly homes = new Map<number, string>();

  constructor(private readonly feed: Feed) {}

  /** Lanes with their spans between two times, devices first. */
  lanes(begin: number, end: number): Lane[] {
    const spans = new Map<string, Span[]>();
    const lane = (key: string, label: string): Span[] => {
      let known = spans.get(key);
      if (!known) spans.set(key, (known = []));
      if (!this.order.has(key)) this.order.set(key, label);
      return known;
    };
    const device = (name: string): Span[] => lane(`device ${name}`, name);
    const of = (row: Row): Span[] => lane(...this.laneOf(row));
    const within = (name: string): Row[] =>
      this.feed.log(name).filter((row) => number(row, "stop") >= begin && number(row, "start") <= end);
    for (const row of within("timeline")) {
      this.homes.set(number(row, "executable"), laneKey(row));
      of(row).push(this.step(row));
    }
    for (const row of this.feed.list("places")) of(row);
    for (const row of within("pauses")) of(row).push(this.pause(row));
    this.addTrail(of, begin, end);
    if (this.isOnSeveral()) {
      for (const row of within("regions")) {
        const name = this.feed.name(row, "device");
        if (name) device(name).push(this.region(row, name));
      }
      for (const move of this.moves(begin, end)) [move.origin, move.device].forEach(device);
    }
    const [busy, away] = [this.busy(begin, end), absences(this.feed)];
    const all = [...this.order].map(([key, label]) => ({
      key, label: this.nameOf(key) ?? label, spans: spans.get(key) ?? [], busy: busy.get(key) ?? [],
      away: (away.get(taskOf(label)) ?? []).filter((a) => a.stop >= begin && a.start <= end),
    })); // prettier-ignore
    const isDevice = (l: Lane): boolean => l.key.startsWith("device ");
    const devices = all.filter(isDevice).sort((a, b) => a.key.localeCompare(b.key, undefined, { numeric: true }));
    return [...devices, ...all.filter((l) => !isDevice(l))];
  }

  /** The lane for a row about a thread; runners have no thread of their own, but a lane each. */
  laneOf(row: Row): readonly [key: string, label: string] {
    const home = this.homes.get(number(row, "executable"));
    // a wait may hold no thread, although its steps are reported with one
    if (home && (home.startsWith("runner ") || !number(row, "thread"))) return [home, home];
    return [laneKey(row), `thread ${this.numberOf(number(row, "thread"))}`];
  }

  /** The name of a thread, once it has come, or of a runner. */
  private nameOf(key: string): string | undefined {
    const [kind, number = ""] = key.split(" ");
    if (kind === "runner") return `runner ${this.graphOf(Number(number))}`;
    const row = kind === "thread" ? this.feed.row("threads", Number(number)) : undefined;
    const name = row && this.feed.name(row, "name");
    return name === "MainThread" ? "main thread" : name?.replace(/^eagerflow-/, "");
  }

  /** Busy times by lane, from sums of steps: of many steps, only the last are reported one by one. */
  private busy(begin: number, end: number): Map<string, Busy[]> {
    const lanes = new Map<string, Busy[]>();
    for (const row of this.feed.table("curve")) {
      const [executable, start, count] = [number(row, "executable"), number(row, "start"), number(row, "count")];
      const home = this.homes.get(executable);
      const stop = start + 1;
      if (!home || stop < begin || start > end) continue;
      const known = lanes.get(home) ?? [];
      known.push({ executable, start, stop, count, share: Math.min(count * number(row, "mean"), 1) });
      lanes.set(home, known);
    }
    return lanes;
  }

  /** The traces between two times. */
  traces(begin: number, end: number): Trace[] {
    const all = this.feed.log("retraces").map((row) => {
      const [name, reason] = [this.feed.name(row, "name"), this.feed.name(row, "reason")];
      const start = number(row, "start");
      return { start, stop: start + number(row, "seconds"), name, reason, isFirst: reason === FIRST };
    });
    return all.filter((t) => t.stop >= begin && t.start <= end);
  }

  moves(begin: number, end: number): Move[] {
    const rows = this.feed.log("moves").filter((r) => number(r, "stop") >= begin && number(r, "start") <= end);
    // transfers of several tasks come interleaved
    const sorted = rows.sort((a, b) => number(a, "stop") - number(b, "stop"));
    return sorted.map((row) => ({
      executable: number(row, "executable"), node: number(row, "node"),
      start: number(row, "start"), stop: number(row, "stop"),
      origin: this.feed.name(row, "origin"), device: this.feed.name(row, "device"),
      bytes: number(row, "bytes"),
    })); // prettier-ignore
  }

  /** Seconds of each of the newest steps of a function; 0 stands for all functions. */
  newest(executable: number): number[] {
    const steps = this.feed.log("timeline").filter((row) => !executable || number(row, "executable") === executable);
    return steps.slice(-NEWEST).map((row) => number(row, "stop") - number(row, "start"));
  }

  /** The text about a span or a transfer. */
  text(of: Span | Move | Busy | Trace | Absence): string {
    const time = seconds((of.stop === Infinity ? this.feed.now() : of.stop) - of.start);
    if ("health" in of) return `${of.task}: ${SAID[of.health]} ${of.stop === Infinity ? "since" : "for"} ${time}`;
    if ("share" in of) {
      const steps = `${count(of.count)} step${of.count === 1 ? "" : "s"}`;
      return `${steps} of ${this.graphOf(of.executable)} in ${time}, ${share(of.share)} of it`;
    }
    if ("reason" in of) return of.isFirst ? `first call of ${of.name}, traced in ${time}` : `${of.name} retraced in ${time}: ${of.reason}`;
    if ("origin" in of) return `${of.origin} → ${of.device}: ${bytes(of.bytes)}, ${time}`;
    return of.kind === "wait" ? `${of.name} ${time}` : `${of.name}, ${time}`;
  }

  graphOf(executable: number): string {
    const row = this.feed.row("executables", executable);
    return row ? this.feed.name(row, "name") : "graph";
  }

  private isOnSeveral(): boolean {
    const devices = new Set(this.feed.log("regions").map((row) => number(row, "device")));
    return devices.size > 1 || this.feed.log("moves").length > 0;
  }

  private numberOf(thread: number): number {
    let known = this.numbers.get(thread);
    if (!known) this.numbers.set(thread, (known = this.numbers.size + 1));
    return known;
  }

  private step(row: Row): Span {
    const executable = number(row, "executable");
    return { kind: "step", ...timesOf(row), executable, node: -1, name: this.graphOf(executable), colour: NEUTRAL };
  }

  private region(row: Row, device: string): Span {
    const executable = number(row, "executable");
    const name = `${this.graphOf(executable)}, region ${number(row, "region")}`;
    return { kind: "region", ...timesOf(row), executable, node: -1, name, colour: deviceColour(device) };
  }

  private pause(row: Row): Span {
    const [executable, node] = [number(row, "executable"), number(row, "node")];
    const name = `${this.feed.name(row, "operation")} of ${this.feed.name(row, "queue")} waited`;
    return { kind: "wait", ...timesOf(row), executable, node, name, colour: "" };
  }

  /** Add glances: consecutive ones at a thread in the same node are joined to one span. */
  private addTrail(of: (row: Row) => Span[], begin: number, end: number): void {
    const last = new Map<number, { span: Span; at: number }>();
    for (const row of this.feed.log("trail")) {
      const [thread, time] = [number(row, "thread"), number(row, "time")];
      if (time < begin || time > end) continue;
      const [executable, node] = [number(row, "executable"), number(row, "node")];
      const known = last.get(thread);
      if (node < 0) continue;
      if (known?.span.node === node && known.span.executable === executable && time - known.span.stop < GLANCE) {
        const span = { ...known.span, stop: time };
        of(row)[known.at] = span;
        last.set(thread, { span, at: known.at });
        continue;
      }
      const name = this.feed.nodeName(executable, node);
      const span: Span = { kind: "node", executable, node, start: time, stop: time + 0.001, name, colour: "" };
      last.set(thread, { span, at: of(row).push(span) - 1 });
    }
  }
}

function laneKey(row: Row): string {
  const [thread, executable] = [number(row, "thread"), number(row, "executable")];
  return thread || !executable ? `thread ${thread}` : `runner ${executable}`;
}

function timesOf(row: Row): { start: number; stop: number } {
  return { start: number(row, "start"), stop: number(row, "stop") };
}
