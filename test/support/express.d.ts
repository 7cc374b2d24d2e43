/** What programs here use of Express, whose types are a package of their own. */
declare module 'express' {
  import type { IncomingMessage, Server, ServerResponse } from 'node:http';

  type Request = IncomingMessage & {
    // biome-ignore lint/suspicious/noExplicitAny: as the types of Express say.
    body: any;
    params: Record<string, string>;
    query: Record<string, string>;
  };
  type Response = ServerResponse & {
    json: (body: unknown) => void;
    send: (body: string) => void;
    redirect: (to: string) => void;
    cookie: (name: string, value: string, options?: object) => Response;
  };
  type Handler = (request: Request, response: Response, next: () => void) => unknown;
  type App = {
    use: (...handlers: (string | Handler)[]) => App;
    get: (path: string, ...handlers: Handler[]) => App;
    post: (path: string, ...handlers: Handler[]) => App;
    listen: (port: number, ready?: () => void) => Server;
  };
  const express: (() => App) & {
    json: () => Handler;
    raw: (options: { type: string }) => Handler;
    urlencoded: (options?: object) => Handler;
  };
  export default express;
}
