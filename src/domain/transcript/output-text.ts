import type { ToolOutput } from './message.ts';

/** Names a file of a tool's output where only text is read. */
export function fileNotice(file: Readonly<{ mediaType: string; filename?: string | undefined; url: string }>): string {
  const where = file.url.startsWith('data:') ? '' : `, ${file.url}`;
  return `[${file.mediaType}${file.filename === undefined ? '' : ` ${file.filename}`}${where}]`;
}

/** The text of an output as the model reads it; what is not text is its JSON, and files are named by a notice. */
export function outputText(output: ToolOutput): string {
  if (output.type === 'execution-denied') return output.reason ?? '';
  if (output.type === 'content') {
    return output.value.map((item) => (item.type === 'text' ? item.text : fileNotice(item))).join('\n');
  }
  return output.type === 'json' ? JSON.stringify(output.value) : output.value;
}

/** The text of an output without a word on its files. */
export function textBeside(output: ToolOutput): string {
  if (output.type !== 'content') return outputText(output);
  return output.value.flatMap((item) => (item.type === 'text' ? [item.text] : [])).join('\n');
}

/** An output with another text. Cut JSON is text, not JSON. Files stay, after the text. */
export function withText(output: ToolOutput, text: string): ToolOutput {
  if (output.type === 'execution-denied') return { type: output.type, reason: text };
  if (output.type === 'content') {
    return {
      type: output.type,
      value: [{ type: 'text', text }, ...output.value.filter(({ type }) => type === 'file')],
    };
  }
  return { type: output.type === 'error-text' ? output.type : 'text', value: text };
}
