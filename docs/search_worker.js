/* A worker in a hidden frame: browsers start no worker from a page on disk, and the search of these pages is one. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      this.waiting = []
      inside.document.open()
      inside.document.write("<!DOCTYPE html><html><body></body></html>")
      inside.document.close()
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => this.load(inside, one)), Promise.resolve())
      this.load(inside, url).then(() => {
        this.inside = inside
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      })
    }

    load(inside, url) {
      return new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = new URL(url, location.href)
        script.onload = done
        script.onerror = failed
        inside.document.body.appendChild(script)
      })
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }))
      else this.waiting.push(data)
    }

    terminate() {}
  }
}
