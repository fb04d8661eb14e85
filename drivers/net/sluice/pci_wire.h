/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The registers of a virtio-pci device: numbers and offsets from the PCI specification and from
 * virtio 1.3, section 4.1. Nothing but the wire.
 */
#ifndef PCI_WIRE_H
#define PCI_WIRE_H

/* Configuration space. */
#define VPCI_VENDOR_ID       0x00
#define VPCI_COMMAND         0x04
#define VPCI_COMMAND_MASTER  0x04 /* it may reach memory */
#define VPCI_STATUS          0x06
#define VPCI_STATUS_CAPS     0x10 /* there is a list of capabilities */
#define VPCI_CAPS_FIRST      0x34
#define VPCI_CAPS_MIN        0x40 /* capabilities lie behind the header */
#define VPCI_CONFIG_LEN      256
#define VPCI_CAP_VENDOR      0x09
#define VPCI_CAP_MSIX        0x11
#define VPCI_MSIX_CONTROL    2 /* of its capability */
#define VPCI_MSIX_TABLE_MASK 0x7ff

/* Devices. */
#define VPCI_VENDOR_VIRTIO           0x1af4
#define VPCI_DEVICE_NET_TRANSITIONAL 0x1000
#define VPCI_DEVICE_NET              0x1041

/* struct virtio_pci_cap (4.1.4): offsets in it, and its types. */
#define VPCI_CAP_LEN        2
#define VPCI_CAP_TYPE       3
#define VPCI_CAP_BAR        4
#define VPCI_CAP_OFFSET     8
#define VPCI_CAP_LENGTH     12
#define VPCI_CAP_BYTES      16
#define VPCI_CAP_MULTIPLIER 16 /* of a notification capability */
#define VPCI_CAP_NOTIFY_LEN 20
#define VPCI_CAP_COMMON     1
#define VPCI_CAP_NOTIFY     2
#define VPCI_CAP_ISR        3
#define VPCI_CAP_DEVICE     4

/* struct virtio_pci_common_cfg (4.1.4.3). */
#define VPCI_COMMON_DEVICE_FEATURE_SELECT 0x00
#define VPCI_COMMON_DEVICE_FEATURE        0x04
#define VPCI_COMMON_DRIVER_FEATURE_SELECT 0x08
#define VPCI_COMMON_DRIVER_FEATURE        0x0c
#define VPCI_COMMON_CONFIG_VECTOR         0x10
#define VPCI_COMMON_NUM_QUEUES            0x12
#define VPCI_COMMON_STATUS                0x14
#define VPCI_COMMON_GENERATION            0x15
#define VPCI_COMMON_QUEUE_SELECT          0x16
#define VPCI_COMMON_QUEUE_SIZE            0x18
#define VPCI_COMMON_QUEUE_VECTOR          0x1a
#define VPCI_COMMON_QUEUE_ENABLE          0x1c
#define VPCI_COMMON_QUEUE_NOTIFY_OFF      0x1e
#define VPCI_COMMON_QUEUE_DESC            0x20
#define VPCI_COMMON_QUEUE_DRIVER          0x28
#define VPCI_COMMON_QUEUE_DEVICE          0x30
#define VPCI_COMMON_LEN                   0x38 /* up to here every device has it */
#define VPCI_COMMON_QUEUE_RESET           0x3a
#define VPCI_COMMON_LEN_RESET             0x3c

/** No MSI-X vector. */
#define VPCI_NO_VECTOR 0xffff

/* Device status (2.1). */
#define VPCI_ACKNOWLEDGE 1
#define VPCI_DRIVER      2
#define VPCI_DRIVER_OK   4
#define VPCI_FEATURES_OK 8
#define VPCI_NEEDS_RESET 64

/* struct virtio_net_config (5.1.4). */
#define VPCI_NET_MAC       0
#define VPCI_NET_STATUS    6
#define VPCI_NET_PAIRS_MAX 8
#define VPCI_NET_MTU       10
#define VPCI_NET_LINK_UP   1 /* in the status */

#endif
