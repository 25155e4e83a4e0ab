/** The kernel's messages for all views of a page: the latest rows of every table. */

import { decode, number, readSchemas, type Message, type Row, type Schema } from "./tables";
import { readStructure, type Structure } from "../graph/structure";

/** The model of ipywidgets that carries the kernel's messages. */
export interface FeedModel {
  comm_live?: boolean;
  get(name: string): unknown;
  send(content: object): void;
  on(event: string, heard: (...given: never[]) => void): void;
}

/** A node that a reader has chosen in a view, shown by all views; -1 for the whole graph. */
export interface Choice {
  readonly executable: number;
  readonly node: number;
}

/** A requested file that has not come yet. */
interface Asked {
  readonly resolve: (text: string) => void;
  readonly reject: (error: Error) => void;
}

export type Status = "waiting" | "live" | "lost";

const VERSION = 1;
export const KEPT = 4096;
const ACKNOWLEDGED = 8;
const SHARED = Symbol.for("eagerflow.feed");

export class Feed {
  status: Status = "waiting";
  /** the reason why nothing can be shown; empty if there is none */
  trouble = "";
  /** number of messages received */
  count = 0;
  /** the node chosen last in any view */
  chosen: Choice | null = null;
  private readonly schemas: Schema[];
  private readonly rows = new Map<string, Map<string, Row>>();
  private readonly lists = new Map<string, readonly Row[]>();
  private readonly logs = new Map<string, Row[]>();
  private readonly listeners = new Set<() => void>();
  private readonly choiceListeners = new Set<(chosen: Choice | null) => void>();
  private readonly structures = new Map<number, Promise<Structure>>();
  private readonly known = new Map<number, Structure>();
  private readonly pieces = new Map<number, Uint8Array<ArrayBuffer>[]>();
  private readonly wanted = new Map<number, (structure: Structure) => void>();
  private readonly assets = new Map<string, Asked>();
  private readonly revisions = new Map<string, number>();
  private sequence = 0;
  private asked = false;
  private time = 0;
  private received = 0;
  private drawn = false;

  /** The feed of a model, shared by all views, though each view has a copy of this module. */
  static of(model: FeedModel): Feed {
    const holder = model as unknown as Record<symbol, Feed | undefined>;
    return (holder[SHARED] ??= new Feed(model));
  }

  private constructor(private readonly model: FeedModel) {
    this.schemas = readSchemas(model.get("tables"));
    this.forget();
    if (model.get("version") !== VERSION) {
      this.trouble = "The kernel has another version of eagerflow than this page: reload it.";
    }
    model.on("msg:custom", (content: Record<string, unknown>, buffers: DataView[]) => {
      this.hear(content, buffers);
    });
    const lost = (): void => {
      if (model.comm_live === false) this.lose();
    };
    model.on("comm_live_update", lost);
    model.on("comm:close", () => {
      this.lose();
    });
    model.on("destroy", () => {
      this.lose();
    });
    lost();
  }

  // --- read by views ---

  table(name: string): IterableIterator<Row> {
    return this.rows.get(name)?.values() ?? new Map<string, Row>().values();
  }

  row(name: string, ...key: number[]): Row | undefined {
    return this.rows.get(name)?.get(key.join());
  }

  list(name: string): readonly Row[] {
    return this.lists.get(name) ?? [];
  }

  log(name: string): readonly Row[] {
    return this.logs.get(name) ?? [];
  }

  /** Number of updates of a table so far: data made from it is valid until the number changes. */
  revision(name: string): number {
    return this.revisions.get(name) ?? 0;
  }

  /** The text of a column that holds numbers of texts. */
  name(of: Row, column: string): string {
    return (this.row("names", number(of, column))?.["text"] as string | undefined) ?? "";
  }

  /** The name of a node, if the structure of its graph has come; else "node". */
  nodeName(executable: number, node: number): string {
    return this.known.get(executable)?.text("name", node) ?? "node";
  }

  /** The present time by the kernel's clock, in seconds. */
  now(): number {
    return this.time + (performance.now() - this.received) / 1000;
  }

  /** The time at which the last message was made. */
  get told(): number {
    return this.time;
  }

  // --- requests of views ---

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Choose a node: each view that shows the node marks it. */
  choose(chosen: Choice | null): void {
    if (chosen?.executable === this.chosen?.executable && chosen?.node === this.chosen?.node) return;
    this.chosen = chosen;
    for (const listener of this.choiceListeners) listener(chosen);
  }

  onChoice(listener: (chosen: Choice | null) => void): () => void {
    this.choiceListeners.add(listener);
    return () => this.choiceListeners.delete(listener);
  }

  show(view: string): void {
    this.say({ shown: view });
    if (this.count === 0) this.say({ resync: true });
  }

  hide(view: string): void {
    this.say({ hidden: view });
  }

  /** Request statistics of a value in the next step. */
  look(executable: number, node: number): void {
    this.say({ look: [executable, node] });
  }

  /** Request the levels of queues without any event so far. */
  askLevels(queues: readonly string[]): void {
    this.say({ levels: queues });
  }

  structure(executable: number): Promise<Structure> {
    let known = this.structures.get(executable);
    if (!known) {
      known = new Promise<Structure>((resolve) => this.wanted.set(executable, resolve));
      void known.then((structure) => this.known.set(executable, structure));
      this.structures.set(executable, known);
      this.say({ structure: executable });
      this.assemble(executable);
    }
    return known;
  }

  /** A file of the front-end that is loaded on demand; rejects if the kernel is gone before it comes. */
  asset(name: string): Promise<string> {
    if (this.status === "lost") return Promise.reject(new Error("the kernel is gone"));
    const asked = new Promise<string>((resolve, reject) => this.assets.set(name, { resolve, reject }));
    this.say({ asset: name });
    return asked;
  }

  private say(content: object): void {
    if (this.status === "lost") return;
    try {
      this.model.send(content);
    } catch {
      this.lose();
    }
  }

  private lose(): void {
    this.status = "lost";
    for (const asked of this.assets.values()) asked.reject(new Error("the kernel is gone"));
    this.assets.clear();
    this.changed();
  }

  // --- messages of the kernel ---

  hear(content: Record<string, unknown>, buffers: readonly DataView[]): void {
    const [data] = buffers;
    if (!data || this.trouble) return;
    if (typeof content["asset"] === "string") {
      this.assets.get(content["asset"])?.resolve(new TextDecoder().decode(data));
      return;
    }
    const message = decode(data, this.schemas);
    if (!message.whole && message.sequence !== this.sequence + 1) {
      if (!this.asked) this.say({ resync: true });
      this.asked = true;
      return;
    }
    this.take(message);
    if (message.sequence % ACKNOWLEDGED === 0) this.say({ ack: message.sequence });
  }

  private take(message: Message): void {
    if (message.whole) this.forget();
    this.sequence = message.sequence;
    this.asked = false;
    this.time = message.time;
    this.received = performance.now();
    this.status = "live";
    this.count += 1;
    for (const [schema, rows] of message.tables) {
      this.revisions.set(schema.name, this.revision(schema.name) + 1);
      if (schema.kind === "list") this.lists.set(schema.name, rows);
      else if (schema.name === "structures") this.takePieces(rows);
      else if (schema.kind === "log") this.append(schema.name, rows);
      else this.put(schema, rows);
    }
    this.changed();
  }

  private put(schema: Schema, rows: Row[]): void {
    const table = this.rows.get(schema.name)!;
    const key = schema.columns.slice(0, schema.key).map(([name]) => name);
    for (const row of rows) table.set(key.map((name) => row[name]).join(), row);
  }

  private append(name: string, rows: Row[]): void {
    const log = this.logs.get(name)!;
    log.push(...rows);
    if (log.length > 2 * KEPT) log.splice(0, log.length - KEPT);
  }

  private takePieces(rows: readonly Row[]): void {
    for (const row of rows) {
      const executable = number(row, "structure");
      const known = this.pieces.get(executable) ?? [];
      known[number(row, "piece")] = row["data"] as Uint8Array<ArrayBuffer>;
      known.length = number(row, "pieces");
      this.pieces.set(executable, known);
      this.assemble(executable);
    }
  }

  private assemble(executable: number): void {
    const parts = this.pieces.get(executable);
    const resolve = this.wanted.get(executable);
    if (!parts || !resolve || Array.from(parts).includes(undefined as never)) return;
    this.wanted.delete(executable);
    void readStructure(parts).then(resolve);
  }

  private forget(): void {
    for (const schema of this.schemas) {
      this.revisions.set(schema.name, this.revision(schema.name) + 1);
      if (schema.kind === "rows") this.rows.set(schema.name, new Map());
      else if (schema.kind === "list") this.lists.set(schema.name, []);
      else this.logs.set(schema.name, []);
    }
  }

  /** Views are drawn once a frame, however many messages come, and not at all in a hidden tab. */
  private changed(): void {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => {
      this.drawn = false;
      for (const listener of this.listeners) listener();
    });
  }
}
