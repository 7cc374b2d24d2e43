import './main.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queries } from './api.ts';
import { listenForKeys } from './keys.ts';
import { loadPages, router } from './router.tsx';
import { applyTheme } from './theme.ts';

applyTheme();
listenForKeys();

const root = document.getElementById('root');
if (root === null) throw new Error('the page has no place for the console');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);

/** The other pages are loaded after this time, so that the first page gets its own data before them. */
const LOAD_PAGES_AFTER_MS = 1_500;
setTimeout(() => void loadPages(), LOAD_PAGES_AFTER_MS);
