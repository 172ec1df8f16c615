/* Pages that are opened from a disk may start no worker. Search runs in one, so there it gets a hidden frame
   that behaves like a worker. Where a server hands out the pages, nothing happens here. */
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      this.waiting = [];
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce(
          (before, each) =>
            before.then(
              () =>
                new Promise((done, failed) => {
                  const script = inner.document.createElement("script");
                  script.src = each;
                  script.onload = done;
                  script.onerror = failed;
                  inner.document.body.append(script);
                }),
            ),
          Promise.resolve(),
        );
      const program = inner.document.createElement("script");
      program.src = url;
      program.onload = () => {
        this.waiting.forEach((data) => this.deliver(data));
        this.waiting = null;
      };
      inner.document.body.append(program);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }

    deliver(data) {
      const inner = this.frame.contentWindow;
      inner.dispatchEvent(new inner.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
  };
}
