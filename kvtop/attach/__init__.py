"""Watching servers of others: metrics scraped, KV events decoded, targets kept apart; nothing here draws."""
