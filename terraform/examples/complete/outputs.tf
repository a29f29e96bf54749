output "compactor" {
  description = "Everything the module tells."
  value       = module.compactor
}
