/*
 * process.c
 *		The extension's processes: what is set up when the library is loaded.
 *
 * Only a server that preloads the library has them; in a session that loads
 * it by itself nothing is hooked and nothing started.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "process/launcher.h"
#include "process/prepared.h"
#include "process/process.h"
#include "process/utility_hook.h"

void
tq_process_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	tq_utility_hook_init();
	tq_prepared_init();
	tq_launcher_init();
}
