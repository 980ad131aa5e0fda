"""What experiments that play games have in common: points, each of them a match of ours."""
