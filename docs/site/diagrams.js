// Draws a page's Mermaid blocks. The library is loaded only where there are some; from a folder it works, too.
const blocks = document.querySelectorAll(".highlight-mermaid pre");
if (blocks.length > 0) {
  const library = document.createElement("script");
  library.src = new URL("mermaid.tiny.js", document.currentScript.src).href;
  library.onload = () => {
    for (const block of blocks) {
      block.textContent = block.textContent; // without the spans of code
    }
    mermaid.initialize({ startOnLoad: false, theme: "default" });
    mermaid.run({ nodes: blocks });
  };
  document.head.append(library);
}
