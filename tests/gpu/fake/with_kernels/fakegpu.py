"""The fake GPU where the project's own kernels compute, compiled for the host, as on a CUDA device: for
`testing.device_module` of whole runs."""

from __future__ import annotations

from tests.gpu.fake import kernels

kernels.use()
