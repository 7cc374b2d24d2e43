import type { ToolOutput } from './message.ts';

/** Names a file of a tool's output in a text. */
export function fileNotice(file: Readonly<{ mediaType: string; filename?: string | undefined; url: string }>): string {
  const where = file.url.startsWith('data:') ? '' : `, ${file.url}`;
  return `[${file.mediaType}${file.filename === undefined ? '' : ` ${file.filename}`}${where}]`;
}

/** An output as the model reads it: values as JSON, files as notices. */
export function outputText(output: ToolOutput): string {
  if (output.type === 'execution-denied') return output.reason ?? '';
  if (output.type === 'content') {
    return output.value.map((item) => (item.type === 'text' ? item.text : fileNotice(item))).join('\n');
  }
  return output.type === 'json' ? JSON.stringify(output.value) : output.value;
}

/** The text of an output without notices for files. */
export function textBeside(output: ToolOutput): string {
  if (output.type !== 'content') return outputText(output);
  return output.value.flatMap((item) => (item.type === 'text' ? [item.text] : [])).join('\n');
}

/** Replaces the text of an output. JSON becomes text, because it may be cut; files stay, after the text. */
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
