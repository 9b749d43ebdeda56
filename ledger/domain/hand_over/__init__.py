"""What a cluster needs when applications, or a mirror, come to it from another one."""
