/**
 * What a violation is about. `shape`: not of the protocol's form; `pairing`: a call without result, a result without
 * call or an id twice; `order`: messages or blocks in an order that is refused; `empty`; `signature`: reasoning that
 * this provider did not give out like this; `name`: a name or id that may not be used; `cache`: cache marks; `setting`:
 * another field of the request.
 */
export type ViolationClass = 'shape' | 'pairing' | 'order' | 'empty' | 'signature' | 'name' | 'cache' | 'setting';

/** Something a provider refuses, in its words. In the text of an item `{path}` stands for its place in the request. */
export type Violation = Readonly<{ class: ViolationClass; text: string }>;

export const violation = (kind: ViolationClass, text: string): Violation => ({ class: kind, text });

/** The violations with the item's place filled in. */
export function placed(problems: readonly Violation[], path: string): Violation[] {
  return problems.map(({ class: kind, text }) => violation(kind, text.replaceAll('{path}', path)));
}
