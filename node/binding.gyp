# SPDX-License-Identifier: MIT
#
# The addon: ours and the core's sources, with node's own uv.h. In a checkout the core is in the
# folder above; in the package, in core/.
{
  'variables': {
    'core%': '<!(node scripts/core.js)',
  },
  'targets': [{
    'target_name': 'node',
    'product_name': 'node.napi',
    'sources': ['src/addon.c', 'src/host.c', 'src/plain.c', 'src/table.c', '<!@(node scripts/core.js sources <(OS))'],
    'include_dirs': ['include', '<(core)/include', '<(core)/src', '<(SHARED_INTERMEDIATE_DIR)'],
    'defines': ['NAPI_VERSION=8', '_GNU_SOURCE', 'UVS_API='],
    'cflags': ['-std=gnu11', '-O3', '-Wall', '-Wextra', '-Wno-unused-parameter', '-fvisibility=hidden'],
    'xcode_settings': {
      'GCC_C_LANGUAGE_STANDARD': 'gnu11',
      'GCC_OPTIMIZATION_LEVEL': '3',
      'GCC_SYMBOLS_PRIVATE_EXTERN': 'YES',
    },
    'actions': [{
      'action_name': 'version',
      'inputs': ['<(core)/include/uvsched/version.h.in', 'package.json'],
      'outputs': ['<(SHARED_INTERMEDIATE_DIR)/uvsched/version.h'],
      'action': ['node', 'scripts/core.js', 'version', '<(SHARED_INTERMEDIATE_DIR)/uvsched/version.h'],
    }],
  }],
}
