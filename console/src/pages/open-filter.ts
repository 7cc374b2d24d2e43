/** The unfolded entry of a short list, which the address of the page holds. */
export type OpenFilter = Readonly<{ open?: string }>;

export const readOpenFilter = ({ open }: Record<string, unknown>): OpenFilter =>
  typeof open === 'string' && /^[a-z]{3}_[0-9a-f]{32}$/.test(open) ? { open } : {};
