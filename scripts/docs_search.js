// Pages opened from a disk may start no worker: a hidden frame runs the script of one, with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(address, location.href);
      script.onload = () => {
        this.send = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
        this.waiting.forEach((data) => this.send(data));
      };
      script.onerror = () => this.dispatchEvent(new Event("error"));
      frame.contentDocument.body.append(script);
    }
    postMessage(data) {
      if (this.send) this.send(data);
      else this.waiting.push(data);
    }
    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
    terminate() {}
  };
}
