// Compiles a folder with the CPython of Pyodide. Arguments: Pyodide's folder, Python's minor version, the folder, and
// where tracebacks say that its files lie. See bytecode.py.
import { pathToFileURL } from "node:url";

const [pyodide, version, folder, where] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`).href);
const python = await loadPyodide();
const has = python.runPython("import sys; '.'.join(map(str, sys.version_info[:2]))");
if (has !== version) {
  console.error(`the locked Pyodide is Python ${has}; package.json must name a release with Python ${version}`);
  process.exit(1);
}
python.FS.mkdirTree(where);
python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, where);
const compiled = python.runPython(`
import compileall, py_compile
compileall.compile_dir(${JSON.stringify(where)}, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
`);
process.exit(compiled ? 0 : 1);
