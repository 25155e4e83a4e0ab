/** What a timeline shows: lanes of devices and threads, with what happened in them. */

import { NEUTRAL, deviceColour } from "../colours";
import type { Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { bytes, seconds } from "../format";

export type SpanKind = "step" | "region" | "node" | "wait";

/** Something that took time, in one lane. */
export interface Span {
  readonly kind: SpanKind;
  readonly executable: number;
  /** the node that it is of; -1 for a whole step or region */
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

export interface Lane {
  readonly key: string;
  readonly label: string;
  readonly spans: Span[];
}

/** steps that figures are of */
const NEWEST = 256;
/** seconds between two glances at a thread in one node, at most, that make one span */
const GLANCE = 0.25;

export class TimelineRows {
  /** labels by key, in the order in which lanes appeared: none goes or moves while one reads */
  private readonly order = new Map<string, string>();
  private readonly numbers = new Map<number, number>();

  constructor(private readonly feed: Feed) {}

  /** Lanes, those of devices first, with what happened between two times. */
  lanes(begin: number, end: number): Lane[] {
    const spans = new Map<string, Span[]>();
    const lane = (key: string, label: string): Span[] => {
      let known = spans.get(key);
      if (!known) spans.set(key, (known = []));
      if (!this.order.has(key)) this.order.set(key, label);
      return known;
    };
    const device = (name: string): Span[] => lane(`device ${name}`, name);
    const thread = (id: number): Span[] => lane(`thread ${id}`, `thread ${this.numberOf(id)}`);
    const within = (name: string): Row[] =>
      this.feed.log(name).filter((row) => number(row, "stop") >= begin && number(row, "start") <= end);
    for (const row of within("timeline")) thread(number(row, "thread")).push(this.step(row));
    for (const row of this.feed.list("places")) thread(number(row, "thread"));
    for (const row of within("pauses")) thread(number(row, "thread")).push(this.pause(row));
    this.addTrail(thread, begin, end);
    if (this.isOnSeveral()) {
      for (const row of within("regions")) {
        const name = this.feed.name(row, "device");
        if (name) device(name).push(this.region(row, name));
      }
      for (const move of this.moves(begin, end)) [move.origin, move.device].forEach(device);
    }
    const all = [...this.order].map(([key, label]) => ({ key, label, spans: spans.get(key) ?? [] }));
    const isDevice = (l: Lane): boolean => l.key.startsWith("device ");
    const devices = all.filter(isDevice).sort((a, b) => a.key.localeCompare(b.key, undefined, { numeric: true }));
    return [...devices, ...all.filter((l) => !isDevice(l))];
  }

  moves(begin: number, end: number): Move[] {
    const rows = this.feed.log("moves").filter((r) => number(r, "stop") >= begin && number(r, "start") <= end);
    return rows.map((row) => ({
      executable: number(row, "executable"), node: number(row, "node"),
      start: number(row, "start"), stop: number(row, "stop"),
      origin: this.feed.name(row, "origin"), device: this.feed.name(row, "device"),
      bytes: number(row, "bytes"),
    })); // prettier-ignore
  }

  /** Seconds that each of the newest steps took, of one function; of all where that is 0. */
  newest(executable: number): number[] {
    const steps = this.feed.log("timeline").filter((row) => !executable || number(row, "executable") === executable);
    return steps.slice(-NEWEST).map((row) => number(row, "stop") - number(row, "start"));
  }

  /** What a reader is told of a span or a transfer. */
  text(of: Span | Move): string {
    const time = seconds(of.stop - of.start);
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

  /** Glances that saw a thread in one node, one after the other, are one span. */
  private addTrail(of: (thread: number) => Span[], begin: number, end: number): void {
    const last = new Map<number, { span: Span; at: number }>();
    for (const row of this.feed.log("trail")) {
      const [thread, time] = [number(row, "thread"), number(row, "time")];
      if (time < begin || time > end) continue;
      const [executable, node] = [number(row, "executable"), number(row, "node")];
      const known = last.get(thread);
      if (node < 0) continue;
      if (known?.span.node === node && known.span.executable === executable && time - known.span.stop < GLANCE) {
        const span = { ...known.span, stop: time };
        of(thread)[known.at] = span;
        last.set(thread, { span, at: known.at });
        continue;
      }
      const name = this.feed.nodeName(executable, node);
      const span: Span = { kind: "node", executable, node, start: time, stop: time + 0.001, name, colour: "" };
      last.set(thread, { span, at: of(thread).push(span) - 1 });
    }
  }
}

function timesOf(row: Row): { start: number; stop: number } {
  return { start: number(row, "start"), stop: number(row, "stop") };
}
