/** The worker that runs Graphviz, in a thread of the browser that can be ended. */

import { Graphviz } from "@hpcc-js/wasm-graphviz";

const loaded = Graphviz.load();

self.onmessage = (event: MessageEvent<{ id: number; dot: string }>): void => {
  const { id, dot } = event.data;
  void loaded
    .then((graphviz) => graphviz.layout(dot, "json0" as "json", "dot"))
    .then(
      (text) => {
        self.postMessage({ id, text });
      },
      (error: unknown) => {
        self.postMessage({ id, error: String(error) });
      },
    );
};
