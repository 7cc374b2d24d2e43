import type { ModelMessage } from '../model/model-message.ts';

export type ShownContent = Readonly<{ type: string; [field: string]: unknown }>;

/**
 * A part as the model reads it: without the provider's options, and with an address in place of the bytes of a file.
 * @param nameOf the name of bytes, which are base64 or their own name already
 */
export function toShownContent(
  part: ModelMessage['content'][number],
  nameOf: (data: string) => string = (data) => data,
): ShownContent {
  const { providerOptions: _theirs, ...visible } = part;
  if (visible.type === 'file') return withUrl(visible, nameOf);
  if (visible.type !== 'tool-result' || visible.output.type !== 'content') return visible;
  const value = visible.output.value.map((item) => (item.type === 'file' ? withUrl(item, nameOf) : item));
  return { ...visible, output: { type: 'content', value } };
}

type File = Readonly<{ type: 'file'; data: { type: 'data'; data: string } | { type: 'url'; url: URL } }>;

function withUrl<T extends File>({ data, ...file }: T, nameOf: (data: string) => string) {
  return { ...file, url: data.type === 'url' ? data.url.href : nameOf(data.data) };
}
