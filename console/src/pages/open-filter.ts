/** What is unfolded in a list of few things, as it stands in the address. */
export type OpenFilter = Readonly<{ open?: string }>;

export const readOpenFilter = ({ open }: Record<string, unknown>): OpenFilter =>
  typeof open === 'string' && /^[a-z]{3}_[0-9a-f]{32}$/.test(open) ? { open } : {};
