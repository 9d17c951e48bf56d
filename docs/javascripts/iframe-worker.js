/* Search without a server. Browsers refuse to start a worker from a file, so the script of the worker runs in a hidden
   frame instead. With a server the worker of the browser is used. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      this.started = new Promise(resolve => { inside.started = resolve })
      inside.answer = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      inside.document.open()
      inside.document.write(`<script>
        var postMessage = answer
        var importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((resolve, reject) => {
          const script = document.createElement("script")
          script.src = url
          script.onload = resolve
          script.onerror = reject
          document.body.appendChild(script)
        })), Promise.resolve())
      </script><body><script src="${url}" onload="started()"></script></body>`)
      inside.document.close()
    }
    postMessage(data) {
      this.started.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
