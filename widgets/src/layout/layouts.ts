/** Layouts by Graphviz, in a worker whose code each page loads once. */

import type { Feed } from "../feed/feed";
import type { Contents } from "../graph/contents";
import { readLayout, writeDot } from "./dot";
import type { Flow, Layout } from "./types";

/**
 * Milliseconds after which a layout is given up. No reader waits that long: the layout of our own is
 * shown meanwhile (`Arrangement`). A busy machine may need many times as long as an idle one.
 */
const LONGEST = 60_000;
const SHARED = Symbol.for("eagerflow.layout");

/** State of a page, shared by all its views and kernels. */
interface Shared {
  /** source of the worker; empty until it has come */
  text: string;
  coming: Promise<string> | null;
}

export class Layouts {
  private worker: Worker | null = null;
  private next = 0;
  private closed = false;
  /** callbacks that end the waits for requested layouts */
  private readonly waiting = new Set<() => void>();

  /** @param feed source of the worker's code; without a feed there are no layouts by Graphviz */
  constructor(private readonly feed: Feed | null) {}

  /** Whether Graphviz can be used at once. */
  get ready(): boolean {
    return shared().text !== "";
  }

  /** Resolves when Graphviz can be used, or when no kernel is left to ask for it. */
  async prepare(): Promise<void> {
    const page = shared();
    while (!page.text && this.feed && this.feed.status !== "lost") {
      const coming = (page.coming ??= this.feed.asset("layout"));
      try {
        page.text = await coming;
      } catch {
        // the request to another kernel of this page failed: the next one goes to this kernel
        if (page.coming === coming) page.coming = null;
      }
    }
  }

  /** A layout by Graphviz; null if Graphviz is missing, fails, takes too long or is abandoned. */
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

  /** Abandon all requested layouts by ending the worker, which accepts no message while it computes. */
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
