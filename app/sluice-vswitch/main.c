/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_version.h>

#include "call_guard.h"
#include "control.h"
#include "eth_port.h"
#include "fault.h"
#include "log.h"
#include "report.h"
#include "sleep.h"
#include "telemetry.h"
#include "worker.h"

#define EXIT_USAGE 2
/* Between two looks whether a worker has come or gone; after so many, why it has not. */
#define WAIT_NS       100000
#define WAITS_TO_LOOK 50

RTE_LOG_REGISTER(log_type, sluice.vswitch, INFO)

static struct vswitch sw;

static void
print_help(void)
{
	printf("usage: sluice-vswitch [EAL options] -- [options]\n"
	       "\n"
	       "  --port "
	       "NAME,path=SOCK[,mode=server|client][,owner=USER][,group=GROUP][,perm=MODE]\n"
	       "         "
	       "[,queues=N][,loopback=on|off|mbuf][,mtu=N][,mrg_rxbuf=on|off][,in_order=on|off]\n"
	       "         [,indirect=on|off][,event_idx=on|off]\n"
	       "         [,coalesce=off|adaptive|static[,frames=N,usecs=N]]\n"
	       "                      a vhost-user port; the switch listens (server, the default)\n"
	       "                      on SOCK, of at most %d bytes, or connects to it (client)\n"
	       "  --port NAME,dev=ETHDEV[,mtu=N][,queues=N]\n"
	       "                      an ethdev that EAL made, such as net_tap0 of --vdev "
	       "net_tap0\n"
	       "  --config FILE       ports and settings from a file\n"
	       "  --ageing SECONDS    forget an address that was not heard so long; 0: never (%d)\n"
	       "  --addresses N       that the forwarding table holds, %d..%d (%d)\n"
	       "  --coalesce off|adaptive|static,frames=N,usecs=N\n"
	       "                      hold a call to a guest back for N frames or N us, or as the\n"
	       "                      load has it (off); a port may have its own: coalesce=..\n"
	       "  --idle poll|sleep   what a worker without work does (poll)\n"
	       "  --idle-usecs N      with sleep: poll for N us first (%d)\n"
	       "  --suppress-kicks on|off\n"
	       "                      ask guests for no kicks while workers are awake; off to\n"
	       "                      measure what that is worth (on)\n"
	       "  --report FILE       write the ledger as JSON at exit\n"
	       "  --help, --version\n"
	       "\n"
	       "The main lcore is the control thread, every other lcore a worker.\n"
	       "Limits: %d ports, %d queue pairs a port.\n"
	       "Example: sluice-vswitch --lcores 0@0,1@1 --no-pci -- \\\n"
	       "             --port vm0,path=/run/vm0.sock --port vm1,path=/run/vm1.sock\n",
		VU_PATH_MAX, AGEING_DEFAULT, ADDRESSES_MIN, ADDRESSES_MAX, ADDRESSES_DEFAULT,
		IDLE_USECS_DEFAULT, PORTS_MAX, PAIRS_MAX);
}

static int
complain(const struct problem *p, int status)
{
	fprintf(stderr, "sluice-vswitch: %s\n", p->text);
	return status;
}

/* What failed for this errno, and what may help. @return -EINVAL */
static int
no_resource(struct problem *out, const char *what, int err)
{
	const char *remedy = "";

	if (err == ENOMEM)
		remedy = ": give the machine more memory";
	else if (err == EMFILE)
		remedy = ": raise the limit of open files (ulimit -n)";
	return problem(out, "%s: %s%s", what, strerror(err), remedy);
}

/* Where "--" stands; argc if nowhere. */
static int
find_separator(int argc, char *const *argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			break;
	return i;
}

/* Read our options, before EAL starts. @return 0, or the exit status plus 1 when that was all */
static int
read_options(int argc, char *const *argv)
{
	int separator = find_separator(argc, argv);
	bool alone =
		argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--version") == 0);
	int first = alone ? 1 : separator + 1;
	struct problem p;
	int i;

	switch_config_init(&sw.config);
	if (separator == argc && !alone)
		for (i = 1; i < argc; i++)
			if (switch_config_is_option(argv[i])) {
				problem(&p, "%s before \"--\": write [EAL options] -- [options]",
					argv[i]);
				return complain(&p, EXIT_USAGE) + 1;
			}
	if (switch_config_options(&sw.config, first < argc ? argc - first : 0, argv + first, &p) <
		0)
		return complain(&p, EXIT_USAGE) + 1;
	if (sw.config.help)
		print_help();
	else if (sw.config.version)
		printf("sluice-vswitch %s, %s\n", SLUICE_VERSION, rte_version());
	return sw.config.help || sw.config.version ? EXIT_SUCCESS + 1 : 0;
}

static int
make_workers(struct problem *out)
{
	unsigned int lcore;

	sw.nworkers = rte_lcore_count() - 1;
	if (sw.nworkers == 0)
		return problem(
			out, "no worker lcore: give EAL two at least, such as --lcores 0@0,1@1");
	sw.workers = calloc(sw.nworkers, sizeof(struct worker *));
	if (sw.workers == NULL || stats_init(&sw.stats, sw.nworkers + 1) < 0 ||
		view_domain_init(&sw.views, sw.nworkers) < 0)
		return problem(out, "out of memory");
	sw.nworkers = 0;
	RTE_LCORE_FOREACH_WORKER(lcore)
	{
		struct worker *w = worker_create(&sw, sw.nworkers, lcore);

		if (w == NULL)
			return no_resource(out, "a worker cannot be made", errno);
		sw.workers[sw.nworkers++] = w;
	}
	return 0;
}

static int
make_tables(struct problem *out)
{
	uint32_t i;
	int ret;

	sw.fdb = fdb_create(sw.config.addresses);
	if (sw.fdb == NULL)
		return problem(out, "no memory for %u addresses: give --addresses fewer",
			sw.config.addresses);
	ret = learning_init(&sw.learning, &sw.config);
	if (ret == -ENOMEM)
		return problem(out, "no memory to learn addresses: give EAL more (-m)");
	if (ret < 0)
		return no_resource(out, "addresses cannot be learned", -ret);
	for (i = 0; i < sw.config.nports; i++)
		if (eth_port_needs_mbufs(&sw.config.ports[i]))
			break;
	if (i == sw.config.nports)
		return 0;
	sw.pool = eth_port_pool(&sw.config, sw.nworkers);
	if (sw.pool == NULL)
		return problem(out, "no memory for mbufs: give EAL more (-m)");
	return 0;
}

static int
make_ports(struct problem *out)
{
	uint32_t i;

	for (i = 0; i < sw.config.nports; i++) {
		struct port *p = &sw.ports[i];
		int ret;

		p->sw = &sw;
		p->id = i;
		p->config = &sw.config.ports[i];
		atomic_init(&p->node, -1);
		ret = p->config->dev[0] != '\0' ? eth_port_create(p, out)
						: vhost_port_create(p, out);
		if (ret < 0) {
			char place[PORT_NAME_MAX + 16];

			snprintf(place, sizeof(place), "port %s", p->config->name);
			return problem_at(out, place);
		}
	}
	vswitch_update_view(&sw);
	return 0;
}

static void
start_workers(void)
{
	const struct timespec pause = {.tv_nsec = WAIT_NS};
	uint32_t i;

	for (i = 0; i < sw.nworkers; i++)
		rte_eal_remote_launch(worker_main, sw.workers[i], sw.workers[i]->lcore);
	for (i = 0; i < sw.nworkers; i++)
		while (!atomic_load_explicit(&sw.workers[i]->started, memory_order_acquire))
			nanosleep(&pause, NULL);
}

/* Without spinning: one of them may need this CPU to come to its end. */
static void
stop_workers(void)
{
	const struct timespec pause = {.tv_nsec = WAIT_NS};
	uint32_t pauses = 0;
	uint32_t i;

	atomic_store(&sw.stop, true);
	sleep_wake_all(&sw);
	for (i = 0; i < sw.nworkers; i++) {
		while (rte_eal_get_lcore_state(sw.workers[i]->lcore) == RUNNING) {
			nanosleep(&pause, NULL);
			if (++pauses % WAITS_TO_LOOK == 0)
				call_guard_look(&sw);
		}
		rte_eal_wait_lcore(sw.workers[i]->lcore);
	}
}

/* Also after half a start. */
static void
tear_down(void)
{
	uint32_t i;

	telemetry_end();
	for (i = 0; i < sw.config.nports; i++) {
		const struct port_ops *ops = sw.ports[i].ops;

		/* Out of the views that the others still make. */
		sw.ports[i].ops = NULL;
		if (ops != NULL)
			ops->destroy(&sw.ports[i]);
	}
	call_guard_end(&sw);
	for (i = 0; i < sw.nworkers && sw.workers != NULL; i++)
		worker_free(sw.workers[i]);
	free(sw.workers);
	fdb_free(sw.fdb);
	learning_end(&sw.learning);
	view_domain_free(&sw.views);
	stats_free(&sw.stats);
	rte_mempool_free(sw.pool);
}

/* The report's file is made at the start, so that a wrong name is not found out at the end. */
static int
run(const sigset_t *signals, FILE *report, struct problem *out)
{
	int ret, written;

	if (fault_init() < 0)
		return problem(out, "SIGBUS cannot be caught: %s", strerror(errno));
	ret = make_workers(out);
	if (ret == 0)
		sleep_follow_views(&sw);
	if (ret == 0 && call_guard_init(&sw) < 0)
		return no_resource(out, "calls to guests cannot be guarded", errno);
	if (ret == 0)
		ret = make_tables(out);
	if (ret == 0)
		ret = make_ports(out);
	if (ret < 0)
		return ret;
	if (telemetry_init(&sw) != 0)
		return problem(out, "telemetry commands cannot be registered");
	start_workers();
	ret = control_run(&sw, signals);
	if (ret < 0)
		no_resource(out, "control thread", -ret);
	stop_workers();
	report_print(&sw, stdout);
	written = report != NULL ? report_write(&sw, report) : 0;
	if (written < 0)
		return problem(out, "--report %s: %s", sw.config.report, strerror(-written));
	return ret;
}

/*
 * A daemon may be started without standard files. Then the first file that is opened, DPDK's shared
 * memory, would be what we print into.
 */
static int
open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int
main(int argc, char **argv)
{
	int separator = find_separator(argc, argv);
	FILE *report = NULL;
	struct problem p;
	sigset_t signals;
	int ret;

	if (open_standard_files() < 0)
		return EXIT_FAILURE;
	ret = read_options(argc, argv);
	if (ret != 0)
		return ret - 1;
	if (sw.config.idle.sleep && !sleep_possible()) {
		problem(&p, "--idle sleep: the kernel lacks what it takes: Linux 5.8 or newer, or "
			    "--idle poll");
		return complain(&p, EXIT_FAILURE);
	}
	if (sw.config.report[0] != '\0') {
		report = fopen(sw.config.report, "we");
		if (report == NULL) {
			problem(&p, "--report %s: %s: give a file that can be written",
				sw.config.report, strerror(errno));
			return complain(&p, EXIT_USAGE);
		}
	}
	/* Before there are other threads, which inherit it. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	/* The terminal went away; under nohup that is no reason to stop. */
	if (signal(SIGHUP, SIG_DFL) == SIG_IGN)
		signal(SIGHUP, SIG_IGN);
	else
		sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);

	ret = rte_eal_init(separator, argv);
	if (ret < 0) {
		problem(&p, "EAL does not start: %s (see above)", rte_strerror(rte_errno));
		return complain(&p, EXIT_FAILURE);
	}
	ret = run(&signals, report, &p);
	if (ret < 0)
		complain(&p, EXIT_FAILURE);
	tear_down();
	rte_eal_cleanup();
	if (report != NULL)
		fclose(report);
	return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
