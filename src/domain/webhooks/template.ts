const PLACE = /\{((?:body|headers)(?:\.[^{}\s]+)?)\}/g;

/** Values that a template may name: `{body.customer.id}`, `{body}` as JSON, `{headers.x-github-event}`. */
export type TemplateValues = Readonly<{ body: unknown; headers: Readonly<Record<string, string>> }>;

/**
 * A template with its places filled: a text as it is, anything else as JSON, nothing for a missing value. What is filled
 * in is not looked at for further places. Pure.
 */
export function fillTemplate(template: string, values: TemplateValues): string {
  return template.replaceAll(PLACE, (_, path: string) => {
    const value = valueAt(values, path.split('.'));
    if (value === undefined || value === null) return '';
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
}

function valueAt(values: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    return Reflect.get(value, key);
  }, values);
}
