import path from 'node:path';
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, type UserConfig } from 'vite';

/** The service that the development server passes requests on to. */
const service = process.env['BATON_URL'] ?? 'http://127.0.0.1:4400';

const root = import.meta.dirname;

export default defineConfig(({ command }) => {
  // Vite builds for development where NODE_ENV is set to anything else.
  if (command === 'build') process.env['NODE_ENV'] = 'production';
  return settings(command);
});

const settings = (command: 'build' | 'serve'): UserConfig => ({
  root,
  // The service puts the place of the console into the built page.
  base: command === 'serve' ? '/console/' : './',
  publicDir: false,
  // The service puts a new nonce in its place in each page that it sends: src/http/console-files.ts.
  html: { cspNonce: 'NONCE_OF_PAGE' },
  plugins: [
    react(),
    tailwind(),
    {
      name: 'base-of-development',
      apply: 'serve',
      transformIndexHtml: (html) => html.replace('<head>', '<head><base href="/console/">'),
    },
  ],
  resolve: { alias: { '@baton-run/server/client': path.join(root, '../src/client/client.ts') } },
  build: {
    outDir: path.join(root, '../dist/console'),
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1_000,
  },
  server: {
    host: '127.0.0.1',
    port: 4401,
    strictPort: true,
    proxy: Object.fromEntries(
      ['/v1', '/admin', '/docs', '/readyz', '/openapi.json', '/console/login', '/console/logout'].map((place) => [
        place,
        { target: service },
      ]),
    ),
  },
});
