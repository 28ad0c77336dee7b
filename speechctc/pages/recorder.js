// Passes the microphone's samples on to the page, in the browser's audio thread.

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(2048);
    this.count = 0;
  }

  process([[channel]]) {
    if (!channel) return true;
    this.samples.set(channel, this.count);
    this.count += channel.length;
    if (this.count + channel.length > this.samples.length) {
      this.port.postMessage(this.samples.slice(0, this.count));
      this.count = 0;
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
