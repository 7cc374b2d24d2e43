/**
 * Makes any string storable as Postgres `text` and `jsonb` and valid as UTF-8: NUL (which Postgres refuses in both) and
 * lone surrogates (which `jsonb` refuses) become U+FFFD. Pure; clean text is returned unchanged.
 */
export function sanitizeText(text: string): string {
  return text.replaceAll('\u0000', '\uFFFD').toWellFormed();
}
