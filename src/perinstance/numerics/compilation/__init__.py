"""What surrounds the compiling of kernels: ``code_folders`` says where compiled code lies, ``kernel_cache`` reads and
writes it for one kernel, ``compile_watch`` tells who waits that something is being compiled. ``blas_calls`` lets
kernels call a library.
"""
