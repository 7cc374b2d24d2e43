/**
 * The ways to log in, which the service writes into the page. `isMounted`: Baton is part of another program, so there are
 * no commands to make a key with. `loginUrl`: the login page of that program.
 */
export type LoginPlace = Readonly<{ isMounted: boolean; loginUrl: string | null }>;

const SERVICE_ALONE: LoginPlace = { isMounted: false, loginUrl: null };

/** `{page}` in the address of the login stands for the page to come back to. */
export function readLoginPlace(): LoginPlace {
  const content = document.querySelector<HTMLMetaElement>('meta[name="baton-login"]')?.content;
  if (content === undefined) return SERVICE_ALONE;
  const { isMounted, loginUrl } = JSON.parse(content) as LoginPlace;
  return { isMounted, loginUrl: loginUrl?.replaceAll('{page}', encodeURIComponent(location.href)) ?? null };
}
