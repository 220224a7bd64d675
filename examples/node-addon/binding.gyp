# SPDX-License-Identifier: MIT
{
  'targets': [{
    'target_name': 'hasher',
    'sources': ['addon.c'],
    'include_dirs': ['<!@(node -p "require(\'uvsched/include\').gyp")'],
    'defines': ['NAPI_VERSION=8'],
    'cflags': ['-std=gnu11', '-Wall', '-Wextra', '-Wno-unused-parameter'],
    'xcode_settings': {'GCC_C_LANGUAGE_STANDARD': 'gnu11'},
  }],
}
