"""The policy lab on the screen: on its own, and as a tab of the live screen. What runs in it is kvtop.lab."""
