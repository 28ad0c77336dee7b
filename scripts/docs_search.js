// The search gives every word of a query a wildcard, so "a" would find all pages: stop words are left out before.
const STOP_WORDS = new Set(
  "a an and are as at be by can do does for from has have how i if in is it its my of on or that the their this to was what when where which who why will with you your".split(" "),
);

function withoutStopWords(message) {
  if (typeof message?.data !== "string") return message;
  const kept = message.data.split(/\s+/).filter((word) => !STOP_WORDS.has(word.toLowerCase()));
  return kept.length ? { ...message, data: kept.join(" ") } : message;
}

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
      const query = withoutStopWords(data);
      if (this.send) this.send(query);
      else this.waiting.push(query);
    }
    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
    terminate() {}
  };
} else {
  window.Worker = class extends Worker {
    postMessage(data) {
      super.postMessage(withoutStopWords(data));
    }
  };
}
