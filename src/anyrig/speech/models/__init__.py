"""Networks in torch: loaded only by the engines that need them."""
