/**
 * How people log in here, as the service has written it into the page. `isMounted`: a program of somebody else's has
 * mounted Baton, which has no commands of its own. `loginUrl`: the program's own login.
 */
export type LoginPlace = Readonly<{ isMounted: boolean; loginUrl: string | null }>;

const UNTOLD: LoginPlace = { isMounted: false, loginUrl: null };

/** `{page}` in the address of the login stands for the page to come back to. */
export function readLoginPlace(): LoginPlace {
  const told = document.querySelector<HTMLMetaElement>('meta[name="baton-login"]')?.content;
  if (told === undefined) return UNTOLD;
  const { isMounted, loginUrl } = JSON.parse(told) as LoginPlace;
  return { isMounted, loginUrl: loginUrl?.replaceAll('{page}', encodeURIComponent(location.href)) ?? null };
}
