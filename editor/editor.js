// Turns the text area of a query into an editor with completion, and shows refusals at their places.
// The editor lives in a shadow root: its styles then need no inline style sheet, which the page's policy forbids.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, StandardSQL, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { lintKeymap, linter } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const dialect = SQLDialect.define({
  ...StandardSQL.spec,
  identifierQuotes: "`",
  backslashEscapes: true,
  doubleQuotedStrings: true,
  types: "array bigint binary boolean date decimal double float int map smallint string struct timestamp tinyint",
  keywords:
    "all and anti any as asc between by case cast cross cube day days desc distinct else end escape except exists explode false filter " +
    "following for from full group grouping having hour hours ilike in inner intersect interval is join lateral left like limit minute " +
    "minutes month months not now null nulls offset on or order outer over partition preceding qualify range right rlike rollup row rows " +
    "second seconds select semi sets some then true unbounded union using values view week weeks when where window with within year years",
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--sheet)", fontSize: ".875rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", minHeight: "12rem", maxHeight: "32rem", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)", padding: ".5rem 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { color: "var(--soft)", backgroundColor: "var(--sunk)", borderRight: "1px solid var(--line)" },
  ".cm-placeholder": { color: "var(--soft)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-sunk)", color: "inherit" },
  ".cm-tooltip": { color: "var(--ink)", backgroundColor: "var(--sheet)", border: "1px solid var(--strong)", borderRadius: "6px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14rem" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--accent-ink)", backgroundColor: "var(--accent)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", maxWidth: "34rem", fontFamily: "var(--font)", padding: ".4rem .7rem" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
});

function token(form) {
  return form.querySelector("input[name=csrf]").value;
}

// Returns a source of diagnostics that asks the server why it refuses the text.
function refusals(area) {
  return async (view) => {
    const text = view.state.doc.toString();
    if (!text.trim()) return [];
    const body = new URLSearchParams(new FormData(area.form));
    body.delete("do");
    body.set("csrf", token(area.form));
    body.set("sql", text);
    const answer = await fetch(area.dataset.check, { method: "POST", body });
    if (!answer.ok) return [];
    const { problems } = await answer.json();
    return problems.map((each) => diagnostic(view.state.doc, each));
  };
}

function diagnostic(doc, { line, column, message, hint }) {
  const at = line && line <= doc.lines ? doc.line(line) : null;
  const from = at ? Math.min(at.from + Math.max(column - 1, 0), at.to) : 0;
  const word = /^[\w.]+/.exec(doc.sliceString(from, at ? at.to : doc.length));
  const to = Math.min(from + (word ? word[0].length : 1), doc.length);
  return { from, to, severity: "error", message: hint ? `${message}\n${hint}` : message };
}

async function schema(area) {
  const answer = await fetch(area.dataset.names);
  if (!answer.ok) return {};
  const { tables, results } = await answer.json();
  return { ...tables, results };
}

function enhance(area) {
  const host = document.createElement("div");
  host.className = "editor";
  const root = host.attachShadow({ mode: "open" });
  const language = new Compartment();
  area.after(host);
  const press = (name) => () => {
    area.form.requestSubmit(area.form.querySelector(`button[name=do][value=${name}]`));
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    doc: area.value,
    extensions: [
      keymap.of([
        { key: "Mod-Enter", run: press("try") },
        ...closeBracketsKeymap,
        ...defaultKeymap,
        ...historyKeymap,
        ...completionKeymap,
        ...lintKeymap,
      ]),
      lineNumbers(),
      history(),
      bracketMatching(),
      closeBrackets(),
      autocompletion({ icons: false }),
      EditorView.lineWrapping,
      EditorState.tabSize.of(2),
      syntaxHighlighting(colours),
      look,
      language.of(sql({ dialect, upperCaseKeywords: true })),
      linter(refusals(area), { delay: 700 }),
      placeholder(area.placeholder),
      EditorView.contentAttributes.of({ "aria-label": "Text of the query", spellcheck: "false" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) area.value = update.state.doc.toString();
      }),
    ],
  });
  area.hidden = true;
  area.required = false;
  document.getElementById("sql-label").addEventListener("click", () => view.focus());
  schema(area).then((tables) => {
    view.dispatch({ effects: language.reconfigure(sql({ dialect, schema: tables, upperCaseKeywords: true })) });
  });
}

for (const area of document.querySelectorAll("textarea[data-names]")) enhance(area);
