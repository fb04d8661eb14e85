/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>

#include <ethdev_pci.h>
#include <rte_interrupts.h>
#include <rte_io.h>

#include "pci.h"
#include "pci_wire.h"

static int
read_config(void *priv, void *to, size_t len, off_t at)
{
	return rte_pci_read_config(priv, to, len, at);
}

static int
write_config(void *priv, const void *from, size_t len, off_t at)
{
	return rte_pci_write_config(priv, from, len, at);
}

static uint32_t
load(void *priv, const volatile void *at, uint32_t width)
{
	RTE_SET_USED(priv);
	switch (width) {
	case 1:
		return rte_read8(at);
	case 2:
		return rte_read16(at);
	default:
		return rte_read32(at);
	}
}

static void
store(void *priv, volatile void *at, uint32_t width, uint32_t value)
{
	RTE_SET_USED(priv);
	switch (width) {
	case 1:
		rte_write8((uint8_t)value, at);
		break;
	case 2:
		rte_write16((uint16_t)value, at);
		break;
	default:
		rte_write32(value, at);
		break;
	}
}

static int
create(struct rte_eth_dev *eth, struct rte_pci_device *pci)
{
	const struct pci_access access = {
		.read_config = read_config,
		.write_config = write_config,
		.load = load,
		.store = store,
		.priv = pci,
	};
	struct pci_bar bars[VPCI_BARS];
	unsigned int i;

	for (i = 0; i < VPCI_BARS; i++)
		bars[i] = (struct pci_bar){pci->mem_resource[i].addr, pci->mem_resource[i].len};
	/* uio_pci_generic knows only INTx, one interrupt for everything; so does vfio-pci if it is
	 * told to. */
	return pci_device_create(eth, &access, bars,
		rte_intr_type_get(pci->intr_handle) == RTE_INTR_HANDLE_VFIO_MSIX ? pci->intr_handle
										 : NULL);
}

static int
pci_probe(struct rte_pci_driver *driver, struct rte_pci_device *pci)
{
	const struct rte_devargs *devargs = pci->device.devargs;
	const char *name = pci->device.name;
	struct sluice_devargs args;
	struct rte_eth_dev *eth;
	int err;

	RTE_SET_USED(driver);
	err = sluice_devargs_parse(
		name, devargs == NULL ? NULL : devargs->args, SLUICE_ARGS_PCI, &args);
	if (err != 0)
		return err;
	/* To the bus: ask the next driver. */
	if (args.declined)
		return 1;
	err = sluice_check_process(name);
	if (err != 0)
		return err;
	eth = rte_eth_dev_pci_allocate(pci, sizeof(struct sluice_dev));
	if (sluice_port_begin(eth, name, &args) == NULL)
		return -ENOMEM;
	return sluice_port_end(eth, create(eth, pci));
}

static int
pci_remove(struct rte_pci_device *pci)
{
	return sluice_remove(pci->device.name);
}

static const struct rte_pci_id pci_ids[] = {
	{RTE_PCI_DEVICE(VPCI_VENDOR_VIRTIO, VPCI_DEVICE_NET)},
	{RTE_PCI_DEVICE(VPCI_VENDOR_VIRTIO, VPCI_DEVICE_NET_TRANSITIONAL)},
	{.vendor_id = 0},
};

static struct rte_pci_driver pci_driver = {
	.id_table = pci_ids,
	.probe = pci_probe,
	.remove = pci_remove,
	.drv_flags = RTE_PCI_DRV_NEED_MAPPING | RTE_PCI_DRV_INTR_LSC | RTE_PCI_DRV_INTR_RMV,
};

RTE_PMD_REGISTER_PCI(net_sluice, pci_driver);
RTE_PMD_REGISTER_PCI_TABLE(net_sluice, pci_ids);
RTE_PMD_REGISTER_KMOD_DEP(net_sluice, "* uio_pci_generic | vfio-pci");
RTE_PMD_REGISTER_PARAM_STRING(net_sluice, SLUICE_PCI_PARAMS);

/* What DPDK's build generates for its own drivers, for dpdk-pmdinfo.py to find in the plugin. */
static const char pmd_info[] __rte_used =
	"PMD_INFO_STRING= {\"name\": \"net_sluice\", \"params\": \"" SLUICE_PCI_PARAMS
	"\", \"kmod\": \"* uio_pci_generic | vfio-pci\", \"pci_ids\": [[6900, 4161, 65535, 65535], "
	"[6900, 4096, 65535, 65535]]}";
