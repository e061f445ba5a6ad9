/*
 * process.c
 *		Sets up the extension's processes and hooks when the library is loaded.
 *
 * Only a server that preloads the library has background processes.  A session
 * that loads the library later starts no process, and installs only the hook
 * for DISCARD ALL.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "process/discard.h"
#include "process/launcher.h"
#include "process/prepared.h"
#include "process/process.h"
#include "process/utility_hook.h"

void
tq_process_init(void)
{
	tq_discard_init();
	if (!process_shared_preload_libraries_in_progress)
		return;
	tq_utility_hook_init();
	tq_prepared_init();
	tq_launcher_init();
}
