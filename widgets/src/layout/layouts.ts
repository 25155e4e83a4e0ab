/** Lays graphs out by Graphviz, in a worker whose code a page gets once. */

import type { Feed } from "../feed/feed";
import type { Contents } from "../graph/contents";
import { readLayout, writeDot } from "./dot";
import type { Flow, Layout } from "./types";

/**
 * milliseconds after which a layout is given up. Nobody waits that long: readers have the layout of
 * our own meanwhile (`Arrangement`). A busy machine may need many times what an idle one does.
 */
const LONGEST = 60_000;
const SHARED = Symbol.for("eagerflow.layout");

/** What a page has once, whatever the number of its views and kernels. */
interface Shared {
  /** the text of the worker; empty until it has come */
  text: string;
  coming: Promise<string> | null;
}

export class Layouts {
  private worker: Worker | null = null;
  private next = 0;
  private closed = false;
  /** layouts that the worker was asked for and has not given, each by what ends the wait for it */
  private readonly waiting = new Set<() => void>();

  /** @param feed gives the worker; without it there are no layouts by Graphviz */
  constructor(private readonly feed: Feed | null) {}

  /** Whether Graphviz can be used at once. */
  get ready(): boolean {
    return shared().text !== "";
  }

  /** Resolves when Graphviz can be used, or when nobody is left to ask for it. */
  async prepare(): Promise<void> {
    const page = shared();
    while (!page.text && this.feed && this.feed.status !== "lost") {
      const coming = (page.coming ??= this.feed.asset("layout"));
      try {
        page.text = await coming;
      } catch {
        // another kernel of this page was asked, and is gone: this one is there
        if (page.coming === coming) page.coming = null;
      }
    }
  }

  /** What Graphviz makes of it; null where it cannot be had, fails, never ends or is abandoned. */
  async lay(contents: Contents, flow: Flow): Promise<Layout | null> {
    await this.prepare();
    if (!this.ready || this.closed || !contents.boxes.length) return null;
    this.worker ??= start(shared().text);
    const worker = this.worker;
    const id = ++this.next;
    const text = await new Promise<string | undefined>((resolve) => {
      const end = (made?: string): void => {
        clearTimeout(timer);
        worker.removeEventListener("message", heard);
        this.waiting.delete(end);
        resolve(made);
      };
      const timer = setTimeout(() => { this.abandon(); }, LONGEST); // prettier-ignore
      const heard = (event: MessageEvent<{ id: number; text?: string }>): void => {
        if (event.data.id === id) end(event.data.text);
      };
      this.waiting.add(end);
      worker.addEventListener("message", heard);
      worker.postMessage({ id, dot: writeDot(contents, flow) });
    });
    return text === undefined ? null : readLayout(text, contents, flow);
  }

  /** End what is being laid out, since nobody wants it any more: with its worker, as it hears nothing. */
  abandon(): void {
    if (!this.waiting.size) return;
    this.worker?.terminate();
    this.worker = null;
    for (const end of this.waiting) end();
  }

  close(): void {
    this.closed = true;
    this.abandon();
    this.worker?.terminate();
    this.worker = null;
  }
}

function shared(): Shared {
  const page = globalThis as unknown as Record<symbol, Shared | undefined>;
  return (page[SHARED] ??= { text: "", coming: null });
}

function start(text: string): Worker {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  URL.revokeObjectURL(url);
  return worker;
}
